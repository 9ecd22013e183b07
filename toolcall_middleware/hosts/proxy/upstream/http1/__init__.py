"""A small HTTP/1.1 client for one origin: httptools' parser on asyncio's transports."""
