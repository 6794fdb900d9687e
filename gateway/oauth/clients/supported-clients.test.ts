import { describe, expect, test } from '@jest/globals';
import { KNOWN_CLIENTS } from './known-clients.ts';
import { displayHost, isOnUsersMachine } from './redirect-uri.ts';
import { createSupportedClients, parseClientDocuments } from './supported-clients.ts';

const clients = createSupportedClients('rms-mcp', KNOWN_CLIENTS);

describe('supported clients', () => {
  test.each([
    'https://claude.ai/api/mcp/auth_callback',
    'https://claude.com/api/mcp/auth_callback',
    'https://chatgpt.com/connector_platform_oauth_redirect',
    'https://chatgpt.com/connector/oauth/aBc-123_x',
    'https://vscode.dev/redirect',
    'https://www.cursor.com/agents/mcp/oauth/callback',
    'cursor://anysphere.cursor-mcp/oauth/callback',
    'http://127.0.0.1/callback',
    'http://127.0.0.1:1/callback',
    'http://127.0.0.1:65535/callback',
    'http://[::1]:49152/callback',
    'http://localhost:8765/callback',
    'http://localhost:7777/oauth/callback',
    'http://127.0.0.1:51234/',
    'http://localhost:6274/oauth/callback/debug',
  ])('allow %s', (uri) => expect(clients.allows('rms-mcp', uri)).toBe(true));

  test('a client with a metadata document may use only the redirect URIs of that document', () => {
    const claudeCode = 'https://claude.ai/oauth/claude-code-client-metadata';
    expect(clients.ids).toContain(claudeCode);
    expect(clients.allows(claudeCode, 'http://localhost:9/callback')).toBe(true);
    expect(clients.allows(claudeCode, 'https://claude.ai/api/mcp/auth_callback')).toBe(false);
    expect(clients.allows(`${claudeCode}/`, 'http://localhost:9/callback')).toBe(false);
    expect(clients.allows('https://evil.example/client.json', 'http://localhost:9/callback')).toBe(
      false,
    );
  });

  test('have a name only if the redirect URI belongs to one client', () => {
    expect(clients.nameOf('rms-mcp', 'https://vscode.dev/redirect')).toBe('Visual Studio Code');
    expect(clients.nameOf('rms-mcp', 'http://127.0.0.1:9/callback')).toBeUndefined();
  });

  test('name the page that lists their redirect URIs, and have unique client ids', () => {
    for (const { source } of KNOWN_CLIENTS) expect(source).toMatch(/^https:\/\//);
    const ids = KNOWN_CLIENTS.flatMap(({ clientId }) => clientId ?? []);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("include apps on the user's own machine", () => {
    expect(isOnUsersMachine('https://claude.ai/api/mcp/auth_callback')).toBe(false);
    expect(isOnUsersMachine('http://localhost:1/callback')).toBe(true);
    // These pages forward the code to an app on the machine; the state selects the app.
    expect(isOnUsersMachine('https://vscode.dev/redirect')).toBe(true);
    expect(isOnUsersMachine('https://insiders.vscode.dev/redirect')).toBe(true);
    expect(isOnUsersMachine('cursor://anysphere.cursor-mcp/oauth/callback')).toBe(true);
    expect(displayHost('cursor://anysphere.cursor-mcp/oauth/callback')).toBe('cursor');
    expect(displayHost('http://127.0.0.1:81/callback')).toBe('127.0.0.1:81');
  });
});

describe('a list of supported clients', () => {
  const list = (uri: string): string => JSON.stringify([{ name: 'x', redirect_uris: [uri] }]);

  test('is read from JSON', () => {
    const documents = parseClientDocuments(list('https://console.example.com/callback'));
    const custom = createSupportedClients('id', documents);
    expect(custom.allows('id', 'https://console.example.com/callback')).toBe(true);
    expect(custom.allows('id', 'https://claude.ai/api/mcp/auth_callback')).toBe(false);
  });

  test.each([
    'http://example.com/callback',
    'http://127.0.0.1.example.com/callback',
    'https://*.example.com/callback',
    'https://example.com/callback#x',
    'https://user@example.com/callback',
    'https://{id}.example.com/callback',
    'https://example.com/x{id}',
    'javascript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    '/callback',
    '',
  ])('rejects the redirect URI %j', (uri) =>
    expect(() => parseClientDocuments(list(uri))).toThrow(),
  );

  test.each(['', '[]', '{}', '[{}]', '[{"name":"x","redirect_uris":[]}]'])(
    'is not the text %j',
    (text) => expect(() => parseClientDocuments(text)).toThrow(),
  );
});
