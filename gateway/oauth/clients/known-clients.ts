import type { ClientDocument } from './supported-clients.ts';

/**
 * The well-known MCP clients, and the redirect URIs that each of them publishes.
 *
 * Some clients use the URL of a metadata document as their client id. Their entries are copies of the document. The
 * gateway never fetches the document, so that an attacker who takes over the URL cannot change where codes go.
 *
 * A loopback address matches any port (RFC 8252, 7.3). `127.0.0.1` also matches `[::1]`. `{id}` matches one path
 * segment. The entries were copied from the pages in `source` on 2026-11-21.
 */
export const KNOWN_CLIENTS: readonly ClientDocument[] = [
  {
    name: 'Claude',
    clientId: 'https://claude.ai/oauth/mcp-oauth-client-metadata',
    source: 'https://claude.com/docs/connectors/building/authentication',
    redirectUris: [
      'https://claude.ai/api/mcp/auth_callback',
      'https://claude.com/api/mcp/auth_callback',
    ],
  },
  {
    name: 'Claude Code',
    clientId: 'https://claude.ai/oauth/claude-code-client-metadata',
    source: 'https://claude.ai/oauth/claude-code-client-metadata',
    redirectUris: ['http://localhost/callback', 'http://127.0.0.1/callback'],
  },
  {
    name: 'ChatGPT',
    clientId: 'https://chatgpt.com/oauth/client.json',
    source: 'https://developers.openai.com/plugins/build/auth',
    redirectUris: [
      'https://chatgpt.com/connector_platform_oauth_redirect',
      'https://chatgpt.com/connector/oauth/{id}',
    ],
  },
  {
    name: 'Codex',
    clientId: 'https://chatgpt.com/oauth/codex/client.json',
    source: 'https://chatgpt.com/oauth/codex/client.json',
    redirectUris: ['http://127.0.0.1/callback', 'http://localhost/callback'],
  },
  {
    name: 'Visual Studio Code',
    clientId: 'https://vscode.dev/oauth/client-metadata.json',
    source: 'https://code.visualstudio.com/api/extension-guides/ai/mcp',
    redirectUris: [
      'http://127.0.0.1:33418/',
      'http://127.0.0.1:33418',
      'https://vscode.dev/redirect',
      'https://insiders.vscode.dev/redirect',
    ],
  },
  {
    name: 'Cursor',
    source: 'https://cursor.com/docs/mcp',
    redirectUris: [
      'cursor://anysphere.cursor-mcp/oauth/callback',
      'https://www.cursor.com/agents/mcp/oauth/callback',
      'http://localhost/callback',
    ],
  },
  {
    name: 'Gemini CLI',
    source: 'https://geminicli.com/docs/tools/mcp-server',
    redirectUris: ['http://localhost/oauth/callback'],
  },
  {
    name: 'MCP Inspector',
    source: 'https://github.com/modelcontextprotocol/inspector',
    redirectUris: [
      'http://localhost/oauth/callback',
      'http://localhost/oauth/callback/debug',
      'http://127.0.0.1/oauth/callback',
      'http://127.0.0.1/oauth/callback/debug',
    ],
  },
  {
    name: 'Perplexity',
    source: 'https://www.perplexity.ai/help-center',
    redirectUris: ['https://www.perplexity.ai/rest/connections/oauth_callback'],
  },
  {
    name: 'Zed',
    clientId: 'https://zed.dev/oauth/client-metadata.json',
    source: 'https://zed.dev/oauth/client-metadata.json',
    redirectUris: ['http://127.0.0.1/callback'],
  },
];
