"""The APIs that clients and upstreams speak, each translated to and from chat completions, without I/O."""
