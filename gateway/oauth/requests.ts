import { createHash } from 'node:crypto';
import type Provider from 'oidc-provider';
import { MCP_SCOPE } from './access-token.ts';
import { type Account, accountId } from './account.ts';
import { MAX_AGE } from './authorize-request.ts';
import { appOf } from './clients/redirect-uri.ts';
import { grantingWith } from './granting.ts';
import { mcpResource } from './issue.ts';

/** An authorization request that waits for its sign-in. */
export interface AuthorizationRequest {
  readonly uid: string;
  readonly clientId: string;
  readonly redirectUri: string;
  /** The address that the client knows somebody by; it may be anything. */
  readonly loginHint?: string | undefined;
  /** What the client wants a person to be asked (OpenID Connect, 3.1.2.1). */
  readonly prompts: readonly string[];
  /** How long ago a person may have signed in at the identity provider. Seconds. */
  readonly maxAgeS?: number | undefined;
  /** The address given so far, where a shop is still to be chosen. */
  readonly email?: string | undefined;
  /** Granted or refused, and the app has not been told yet. */
  readonly isDecided: boolean;
}

/** The requests that wait, and the two ways in which they end. */
export interface AuthorizationRequests {
  /** Undefined when it has ended. */
  find(uid: string): Promise<AuthorizationRequest | undefined>;
  remember(uid: string, what: { readonly email: string }): Promise<void>;
  /**
   * Grants it, and answers the path where the code is given; undefined when it has ended otherwise. Of
   * many at once, or one after a failure, all are answered the same.
   *
   * @param isConsented whether the person was asked, and agreed.
   * @throws DomainError PERMISSION_DENIED when the person is no member of the shop any more.
   */
  grant(uid: string, account: Account, isConsented: boolean): Promise<string | undefined>;
  /** Has the client told `access_denied`, with the reason; the path where that happens. */
  refuse(uid: string, why: string): Promise<string | undefined>;
}

/** @param current the authorization server of the moment. */
export function createRequests(
  issuer: string,
  current: () => Promise<Provider>,
): AuthorizationRequests {
  type Interaction = InstanceType<Provider['Interaction']>;
  const load = async (uid: string): Promise<Interaction | undefined> =>
    (await current()).Interaction.find(uid);
  const save = (interaction: Interaction): Promise<unknown> =>
    interaction.save(Math.max(1, (interaction.exp ?? 0) - Math.floor(Date.now() / 1_000)));
  /** The provider makes it from the Host header; only its path is used. */
  const resumePath = ({ returnTo }: Interaction): string => new URL(returnTo, issuer).pathname;

  return {
    async find(uid) {
      const interaction = await load(uid);
      return interaction && requestOf(interaction);
    },
    async remember(uid, { email }) {
      const interaction = await load(uid);
      if (!interaction) return;
      interaction.lastSubmission = { email };
      await save(interaction);
    },
    async grant(uid, account, isConsented) {
      const provider = await current();
      const interaction = await load(uid);
      const request = interaction && requestOf(interaction);
      if (!request) return undefined;
      const id = accountId(account);
      if (interaction.result) {
        // Sent again by somebody whose answer was lost: it was allowed, and the app still waits.
        return interaction.result.login?.accountId === id ? resumePath(interaction) : undefined;
      }
      const grant = new provider.Grant({ accountId: id, clientId: request.clientId });
      grant.jti = grantIdOf(uid);
      grant.addResourceScope(mcpResource(issuer), MCP_SCOPE);
      const app = appOf(request.redirectUri);
      const grantId = await grantingWith({ app, isConsented }, () => grant.save());
      const login = { accountId: id, remember: false };
      interaction.result = { login, consent: { grantId }, select_account: {} };
      await save(interaction);
      return resumePath(interaction);
    },
    async refuse(uid, why) {
      const interaction = await load(uid);
      if (!interaction || interaction.result) return undefined;
      interaction.result = { error: 'access_denied', error_description: why };
      await save(interaction);
      return resumePath(interaction);
    },
  };
}

/** A request has one grant, however often it is allowed. Tokens name the grant, and must not name the request. */
function grantIdOf(uid: string): string {
  return createHash('sha256').update(`grant:${uid}`).digest('base64url');
}

/** Undefined when the provider keeps it without what every request has. */
export function requestOf(interaction: {
  readonly uid: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly lastSubmission?: Readonly<Record<string, unknown>> | undefined;
  readonly result?: unknown;
}): AuthorizationRequest | undefined {
  const { client_id: clientId, redirect_uri: redirectUri } = interaction.params;
  if (typeof clientId !== 'string' || typeof redirectUri !== 'string') return undefined;
  const email = interaction.lastSubmission?.email;
  const { login_hint: loginHint, prompt, [MAX_AGE]: maxAge } = interaction.params;
  return {
    uid: interaction.uid,
    clientId,
    redirectUri,
    prompts: typeof prompt === 'string' ? prompt.split(' ') : [],
    isDecided: interaction.result !== undefined,
    ...(typeof maxAge === 'string' && { maxAgeS: Number(maxAge) }),
    ...(typeof loginHint === 'string' && { loginHint }),
    ...(typeof email === 'string' && { email }),
  };
}
