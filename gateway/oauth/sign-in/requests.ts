import { createHash } from 'node:crypto';
import type Provider from 'oidc-provider';
import { appOf } from '../clients/redirect-uri.ts';
import { withGrantContext } from '../tokens/grant-context.ts';
import { type Account, accountId } from './account.ts';
import { MAX_AGE } from './authorize-request.ts';

/** An authorization request whose sign-in has not ended. */
export interface AuthorizationRequest {
  readonly uid: string;
  readonly clientId: string;
  readonly redirectUri: string;
  /** The scopes that the client asks for. */
  readonly scopes: readonly string[];
  /** The user name or address that the client suggests. It may be any text. */
  readonly loginHint?: string | undefined;
  /** The `prompt` values that the client sent (OpenID Connect, 3.1.2.1). */
  readonly prompts: readonly string[];
  /** Maximum age of the user's sign-in at the identity provider. Seconds. */
  readonly maxAgeS?: number | undefined;
  /** The e-mail address that the user entered. Present only while the user must choose a shop. */
  readonly email?: string | undefined;
  /** Whether the request is granted or denied. The app may not have received the response yet. */
  readonly isDecided: boolean;
}

/** What the user allowed, and where. */
export interface GrantedHow {
  /** Whether the user saw the consent page, and agreed. */
  readonly isConsented: boolean;
  /** Whether the app may only read. */
  readonly isReadOnly: boolean;
  /** The name that the app gives itself; undefined when it is unknown. */
  readonly selfName?: string | undefined;
}

/** The open authorization requests. A request ends by `grant` or `deny`. */
export interface AuthorizationRequests {
  /** Undefined when the request has ended. */
  find(uid: string): Promise<AuthorizationRequest | undefined>;
  storeEmail(uid: string, email: string): Promise<void>;
  /**
   * Grants the request and returns the path that issues the code. Returns undefined when the request was denied, was
   * granted for another account, or has expired. Idempotent: concurrent calls, and a call after a failure, return the
   * same path.
   *
   * @throws DomainError PERMISSION_DENIED when the user is no longer a member of the shop.
   */
  grant(uid: string, account: Account, how: GrantedHow): Promise<string | undefined>;
  /** Denies the request with `access_denied`. Returns the path that redirects the browser to the client. */
  deny(uid: string, description: string): Promise<string | undefined>;
}

/** @param current returns oidc-provider with the newest signing key. */
export function createRequests(
  { issuer, resource }: { readonly issuer: string; readonly resource: string },
  current: () => Promise<Provider>,
): AuthorizationRequests {
  type Interaction = InstanceType<Provider['Interaction']>;
  const load = async (uid: string): Promise<Interaction | undefined> =>
    (await current()).Interaction.find(uid);
  const save = (interaction: Interaction): Promise<unknown> =>
    interaction.save(Math.max(1, (interaction.exp ?? 0) - Math.floor(Date.now() / 1_000)));
  /** Uses only the path of `returnTo`, because oidc-provider builds the URL from the Host header. */
  const resumePath = ({ returnTo }: Interaction): string => new URL(returnTo, issuer).pathname;

  return {
    async find(uid) {
      const interaction = await load(uid);
      return interaction && requestOf(interaction);
    },
    async storeEmail(uid, email) {
      const interaction = await load(uid);
      if (!interaction) return;
      interaction.lastSubmission = { email };
      await save(interaction);
    },
    async grant(uid, account, how) {
      const provider = await current();
      const interaction = await load(uid);
      const request = interaction && requestOf(interaction);
      if (!request) return undefined;
      const id = accountId(account);
      if (interaction.result) {
        // The request is already granted: the browser lost the response and sent the form again.
        return interaction.result.login?.accountId === id ? resumePath(interaction) : undefined;
      }
      const grant = new provider.Grant({ accountId: id, clientId: request.clientId });
      grant.jti = grantIdOf(uid);
      grant.addResourceScope(resource, request.scopes.join(' '));
      const app = appOf(request.redirectUri);
      const grantId = await withGrantContext({ app, ...how }, () => grant.save());
      const login = { accountId: id, remember: false };
      interaction.result = { login, consent: { grantId }, select_account: {} };
      await save(interaction);
      return resumePath(interaction);
    },
    async deny(uid, description) {
      const interaction = await load(uid);
      if (!interaction || interaction.result) return undefined;
      interaction.result = { error: 'access_denied', error_description: description };
      await save(interaction);
      return resumePath(interaction);
    },
  };
}

/**
 * Derives the id of the grant from the id of the request, so that a request has one grant even if the user sends the
 * form twice. The id is a hash, because tokens contain it and the id of the request must stay secret.
 */
function grantIdOf(uid: string): string {
  return createHash('sha256').update(`grant:${uid}`).digest('base64url');
}

/** Parses oidc-provider's record of a request. Undefined when the record has no client id or redirect URI. */
export function requestOf(interaction: {
  readonly uid: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly lastSubmission?: Readonly<Record<string, unknown>> | undefined;
  readonly result?: unknown;
}): AuthorizationRequest | undefined {
  const { client_id: clientId, redirect_uri: redirectUri } = interaction.params;
  if (typeof clientId !== 'string' || typeof redirectUri !== 'string') return undefined;
  const email = interaction.lastSubmission?.email;
  const { login_hint: loginHint, prompt, scope, [MAX_AGE]: maxAge } = interaction.params;
  return {
    uid: interaction.uid,
    clientId,
    redirectUri,
    scopes: typeof scope === 'string' ? scope.split(' ') : [],
    prompts: typeof prompt === 'string' ? prompt.split(' ') : [],
    isDecided: interaction.result !== undefined,
    ...(typeof maxAge === 'string' && { maxAgeS: Number(maxAge) }),
    ...(typeof loginHint === 'string' && { loginHint }),
    ...(typeof email === 'string' && { email }),
  };
}
