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

/** Revisions of the protocol, one of each era. */
export const REVISIONS = ['2026-07-28', '2025-11-25'] as const;
export type Revision = (typeof REVISIONS)[number];

/** An assistant's memory of its sign-in, as the official client wants it. */
export class SignInMemory implements OAuthClientProvider {
  readonly redirectUrl: string;
  readonly #hint: string | undefined;
  /** Where the client wanted the browser to go. */
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
  /** Told when the server takes them no more: an assistant then starts anew. */
  invalidateCredentials(): void {
    this.stored = undefined;
  }
}

/** The official client, with whatever gets it in. */
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
  /** Whether the assistant names the person in advance. */
  readonly hinted?: boolean;
  readonly seen?: (page: Page) => Promise<void>;
}

export interface SignInResult {
  /** Headings of the pages that showed. */
  readonly pages: readonly string[];
  /** Text of the last page. */
  readonly text: string;
  /** Connected; undefined when the browser did not come back. */
  readonly client: Client | undefined;
  readonly memory: SignInMemory;
}

/**
 * Signs an assistant in as a person would: the official client finds out where, a browser goes
 * through the forms, and the client redeems what came back.
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

/** Connects without a token, as an assistant does at first. @returns where it wants the browser to go. */
async function firstTry(o: SignInTry, memory: SignInMemory): Promise<URL> {
  const { client, transport } = newClient(o.stack.file.mcp.url, o.revision, { memory });
  try {
    await client.connect(transport);
  } catch (error) {
    if (error instanceof UnauthorizedError && memory.opened) return memory.opened;
    throw error;
  }
  throw new Error('the server let in an assistant without a token');
}
