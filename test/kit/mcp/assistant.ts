import {
  Client,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import type { Browser, Page } from 'playwright-core';
import type { OpenStack, StackUser } from '../stack.ts';
import { walkThrough } from './browser.ts';
import { startCallback } from './callback.ts';

/** One protocol revision of each generation. */
export const REVISIONS = ['2026-07-28', '2025-11-25'] as const;
export type Revision = (typeof REVISIONS)[number];

/** The state of an assistant's sign-in, as the official client requires it. */
class SignInMemory implements OAuthClientProvider {
  readonly redirectUrl: string;
  readonly #hint: string | undefined;
  /** The URL to which the client redirected the browser. */
  opened: URL | undefined;
  stored: StoredOAuthTokens | undefined;
  #client: StoredOAuthClientInformation | undefined;
  #verifier = '';
  #state = '';
  #discovery: OAuthDiscoveryState | undefined;

  constructor(redirectUrl: string, hint?: string) {
    this.redirectUrl = redirectUrl;
    this.#hint = hint;
  }

  get clientMetadata() {
    return { redirect_uris: [this.redirectUrl], client_name: 'Test assistant' };
  }
  state(): string {
    this.#state ||= crypto.randomUUID();
    return this.#state;
  }
  clientInformation() {
    return this.#client;
  }
  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.#client = client;
  }
  tokens() {
    return this.stored;
  }
  saveTokens(tokens: StoredOAuthTokens): void {
    this.stored = tokens;
  }
  redirectToAuthorization(url: URL): void {
    if (this.#hint !== undefined) url.searchParams.set('login_hint', this.#hint);
    this.opened = url;
  }
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }
  codeVerifier(): string {
    return this.#verifier;
  }
  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state;
  }
  discoveryState() {
    return this.#discovery;
  }
  /** The client calls it when the server rejects the credentials. The assistant then starts again. */
  invalidateCredentials(): void {
    this.stored = undefined;
  }
}

/** The official client with these credentials. */
export function newClient(
  url: string,
  revision: Revision,
  access: { readonly memory: SignInMemory } | { readonly token: string },
) {
  const client = new Client(
    { name: 'test-assistant', version: '1.0.0' },
    revision === '2026-07-28' ? { versionNegotiation: { mode: { pin: revision } } } : {},
  );
  const transport = new StreamableHTTPClientTransport(
    new URL(url),
    'memory' in access
      ? { authProvider: access.memory }
      : { requestInit: { headers: { Authorization: `Bearer ${access.token}` } } },
  );
  return { client, transport };
}

export interface SignInTry {
  readonly stack: OpenStack;
  readonly browser: Browser;
  readonly person: StackUser;
  readonly revision: Revision;
  readonly shopId?: number;
  /** Whether the assistant sends a `login_hint`. */
  readonly hinted?: boolean;
  readonly seen?: (page: Page) => Promise<void>;
}

export interface SignInResult {
  /** Headings of the shown pages. */
  readonly pages: readonly string[];
  /** Text of the last page. */
  readonly text: string;
  /** The connected client. Undefined when the browser did not return. */
  readonly client: Client | undefined;
  readonly memory: SignInMemory;
}

/**
 * Signs an assistant in like a user: the official client discovers the authorization server, a browser completes the
 * forms, and the client redeems the code.
 */
export async function signIn(o: SignInTry): Promise<SignInResult> {
  const { email, password } = o.person;
  const callback = await startCallback();
  const context = await o.browser.newContext();
  try {
    const memory = new SignInMemory(callback.redirectUri, o.hinted ? email : undefined);
    const start = await firstTry(o, memory);
    const page = await context.newPage();
    const answers = { email, password, ...(o.shopId !== undefined && { shopId: o.shopId }) };
    const pages = await walkThrough(page, start, {
      ...answers,
      backAt: callback.redirectUri,
      ...(o.seen && { seen: o.seen }),
    });
    const text = await page.locator('body').innerText();
    if (!page.url().startsWith(callback.redirectUri)) {
      return { pages, text, client: undefined, memory };
    }
    const { client, transport } = newClient(o.stack.file.mcp.url, o.revision, { memory });
    await transport.finishAuth(await callback.next());
    await client.connect(transport);
    return { pages, text, client, memory };
  } finally {
    await context.close();
    await callback.stop();
  }
}

/**
 * Connects without a token, as an assistant does first.
 *
 * @returns the URL to open in the browser.
 */
async function firstTry(o: SignInTry, memory: SignInMemory): Promise<URL> {
  const { client, transport } = newClient(o.stack.file.mcp.url, o.revision, { memory });
  try {
    await client.connect(transport);
  } catch (error) {
    if (error instanceof UnauthorizedError && memory.opened) return memory.opened;
    throw error;
  }
  throw new Error('the server accepted an assistant without a token');
}
