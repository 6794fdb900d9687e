import { ICON_PATH, SERVER_DESCRIPTION, SERVER_TITLE, SERVER_VERSION } from '../identity.ts';

/**
 * The entry for the MCP registry. Who publishes it replaces the example domain. The name begins with the domain in
 * reverse order, because the registry verifies the domain by it.
 */
export function serverJson() {
  return {
    $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
    name: 'com.example/returns-management',
    title: SERVER_TITLE,
    description: SERVER_DESCRIPTION,
    version: SERVER_VERSION,
    icons: [
      { src: `https://returns.example.com${ICON_PATH}`, mimeType: 'image/svg+xml', sizes: ['any'] },
    ],
    remotes: [{ type: 'streamable-http', url: 'https://returns.example.com/mcp' }],
  };
}
