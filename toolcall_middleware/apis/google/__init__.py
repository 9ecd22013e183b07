"""Google's generateContent, as an upstream answers it."""
