"""Server of the Model Context Protocol (MCP): stored runs as tools of an assistant, and a text that teaches it."""
