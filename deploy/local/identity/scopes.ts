import { OPERATIONS } from '../../../services/contract/operations.ts';
import type { Scope } from '../../../services/contract/scopes.ts';

/** What a scope lets an app do, as the consent page says it. */
const SCOPE_TEXTS: Readonly<Record<Scope, readonly string[]>> = {
  developer_tools: [
    'see, create, change and delete the webhooks of the shop',
    'receive the events of the shop at addresses of its choice: returns with items, addresses and e-mail addresses of shoppers',
    'see what was delivered, and send it again',
  ],
  'labels:write': ['record shipping labels for returns, and report what the carrier says'],
  'giftcards:write': ['record the gift cards that it issued for returns'],
  returns: ['see, change and process the returns of the shop'],
  carts: ['create and see carts'],
  'destinations:read': ['see the destinations of returns'],
  'destinations:write': ['change the destinations of returns'],
};

/** The scopes of partner tokens: those of the operations that accept a token (interface: Authentication, REST API 2). */
export const PARTNER_SCOPES: readonly Scope[] = [
  ...new Set(
    OPERATIONS.filter(({ credentials }) => credentials === 'bearer-or-api-key').map(
      ({ scope }) => scope,
    ),
  ),
];

/** What an app learns about the person, by OpenID scope. */
const OPENID_TEXTS: ReadonlyMap<string, string> = new Map([
  ['openid', 'recognize you when you sign in again'],
  ['email', 'see your e-mail address'],
  ['profile', 'see your name'],
]);

/** All scopes of this server. */
export const KNOWN_SCOPES: readonly string[] = [...PARTNER_SCOPES, ...OPENID_TEXTS.keys()];

/** The scopes of an authorization request that this server knows. Unknown ones are ignored (RFC 6749, 3.3). */
export interface RequestedScopes {
  readonly shop: readonly Scope[];
  readonly openid: readonly string[];
}

/** @param scope the parameter of the request. */
export function requestedScopes(scope: unknown): RequestedScopes {
  const requested = typeof scope === 'string' ? scope.split(' ') : [];
  return {
    shop: PARTNER_SCOPES.filter((known) => requested.includes(known)),
    openid: [...OPENID_TEXTS.keys()].filter((known) => requested.includes(known)),
  };
}

/** What the app may do with these scopes, in plain words. */
export function textsOf({ shop, openid }: RequestedScopes): readonly string[] {
  return [
    ...shop.flatMap((scope) => SCOPE_TEXTS[scope]),
    ...openid.flatMap((scope) => OPENID_TEXTS.get(scope) ?? []),
  ];
}
