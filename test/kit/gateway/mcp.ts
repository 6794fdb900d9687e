import { randomUUID } from 'node:crypto';
import { request } from 'undici';
import { issueAccessToken, storeGrant } from '../../../gateway/oauth/tokens/issue.ts';
import { createOAuthKeys, type OAuthKeys } from '../../../gateway/oauth/tokens/keys.ts';
import type { GatewayOptions } from '../../../gateway/open-parts.ts';
import { addMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import { startTestGateway, TEST_AUTHOR, type TestGateway } from './test-gateway.ts';
import { GOOD_CALLS, SPARE_GRANT } from './tool-calls.ts';

/** The public address of the gateway under test. */
export const PUBLIC_URL = 'https://returns.example.com';

export interface McpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The response body; undefined when it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a test states what it expects of a response.
  readonly body: any;
}

export interface SignedInMember {
  readonly userId: bigint;
  readonly shopId: bigint;
  readonly email: string;
  readonly token: string;
}

/** The parts of a tool's result. */
export interface ToolResult {
  readonly isError: boolean;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test states what it expects of a response.
  readonly data: any;
}

export interface McpBench extends TestGateway {
  readonly keys: OAuthKeys;
  readonly mcpUrl: string;
  /** Adds a user with this role in a shop (by default the first shop) and signs in. */
  member(role: Role, shopId?: bigint): Promise<SignedInMember>;
  tokenFor(o: {
    userId: bigint;
    shopId: bigint;
    ttlS?: number;
    isReadOnly?: boolean;
  }): Promise<string>;
  post(o: {
    token?: string;
    method?: string;
    headers?: Record<string, string>;
    body?: unknown;
    raw?: string | Buffer;
  }): Promise<McpResponse>;
  /** Sends one POST request with the two headers of the interface. */
  rpc(token: string, method: string, params?: object): Promise<McpResponse>;
  call(token: string, name: string, args?: object): Promise<ToolResult>;
  /** The arguments of `GOOD_CALLS`. For `disconnect_assistant` a user without `team.manage` gets their own grant. */
  goodCall(member: SignedInMember, name: string): Promise<object>;
}

/** A gateway with fake services and signed-in users. */
export async function startMcpBench(options: Partial<GatewayOptions> = {}): Promise<McpBench> {
  const keyring = options.OAUTH_KEYRING ?? parseKeyring(newKeyringText());
  const bench = await startTestGateway({
    PUBLIC_BASE_URL: PUBLIC_URL,
    OAUTH_KEYRING: keyring,
    MCP_CALLS_PER_HOUR: 100_000,
    MCP_REQUESTS_PER_MINUTE: 100_000,
    MCP_REFUSED_PER_MINUTE: 100_000,
    ...options,
  });
  const { pool } = bench.database;
  const keys = createOAuthKeys(pool, keyring);
  const by = TEST_AUTHOR;
  /** An owner that no test changes, because a shop must have an owner. */
  const addOwner = (shopId: bigint) =>
    addMember(pool, { shopId, email: `owner-${shopId}@example.com`, role: 'owner', by });
  if (options.DATABASE_URL === undefined) {
    await storeGrant(pool, SPARE_GRANT, { ...(await addOwner(1n)), clientId: 'rms-mcp' });
  }
  const mcpUrl = `http://127.0.0.1:${bench.gateway.port}/mcp`;
  const tokenFor: McpBench['tokenFor'] = (o) =>
    issueAccessToken(pool, keys, { issuer: PUBLIC_URL, clientId: 'rms-mcp', ...o });

  const post: McpBench['post'] = async ({ token, method = 'POST', headers = {}, body, raw }) => {
    const hasBody = body !== undefined || raw !== undefined;
    const response = await request(mcpUrl, {
      // undici's types list only known methods, but undici sends any.
      method: method as 'POST',
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(hasBody && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(hasBody && { body: raw ?? JSON.stringify(body) }),
    });
    const text = await response.body.text();
    return { status: response.statusCode, headers: response.headers, text, body: parsed(text) };
  };
  const rpc: McpBench['rpc'] = (token, method, params) =>
    post({ token, body: { jsonrpc: '2.0', id: 1, method, ...(params && { params }) } });

  return {
    ...bench,
    keys,
    mcpUrl,
    tokenFor,
    post,
    rpc,
    async member(role, shopId = 1n) {
      await addOwner(shopId);
      const email = `${randomUUID()}@example.com`;
      const { userId } = await addMember(pool, { shopId, email, role, name: 'Ada', by });
      return { userId, shopId, email, token: await tokenFor({ userId, shopId }) };
    },
    async goodCall({ userId, shopId }, name) {
      if (name !== 'disconnect_assistant') return GOOD_CALLS[name] ?? {};
      const assistant_id = randomUUID();
      await storeGrant(pool, assistant_id, { userId, shopId, clientId: 'rms-mcp' });
      return { assistant_id };
    },
    async call(token, name, args = {}) {
      const { body, status, text } = await rpc(token, 'tools/call', { name, arguments: args });
      if (status !== 200 || !body?.result) throw new Error(`${name}: ${status} ${text}`);
      return toolResult(body.result);
    },
  };
}

/** Splits a result of `tools/call` into its parts. */
export function toolResult(result: {
  isError?: boolean;
  content?: { text?: string }[];
  structuredContent?: unknown;
}): ToolResult {
  return {
    isError: result.isError ?? false,
    text: result.content?.[0]?.text ?? '',
    data: result.structuredContent,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
