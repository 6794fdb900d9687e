/** The scopes of API keys and partners' tokens. `operations.ts` has the scopes of each operation. */
export const SCOPES = [
  'returns',
  'returns:read',
  'returns:submit',
  'warehouse',
  'carts',
  'developer_tools',
  'destinations:read',
  'destinations:write',
  'labels:write',
  'giftcards:write',
] as const;

export type Scope = (typeof SCOPES)[number];

/** What a scope is, for the person who creates a key or lets an app in. */
interface ScopeRules {
  /** One or two sentences. The portal, the CLI, the consent page and OpenAPI show them. */
  readonly text: string;
  /** The scopes that it includes. */
  readonly includes?: readonly Scope[];
}

export const SCOPE_RULES: Readonly<Record<Scope, ScopeRules>> = {
  returns: {
    text: 'See, submit, change and, with an API key, process returns: pays refunds, issues gift cards, places exchange orders. Includes returns:read, returns:submit and warehouse.',
    includes: ['returns:read', 'returns:submit', 'warehouse'],
  },
  'returns:read': {
    text: 'See returns with their customers, what happened to them, the return policy and reports. Changes nothing and moves no money.',
  },
  'returns:submit': {
    text: 'For storefronts: see what may be returned, submit returns, and see and cancel the returns that were submitted this way.',
  },
  warehouse: {
    text: 'For logistics providers: see what is expected, record arrivals, grades and dispositions, and see returns without the name, e-mail address and address of the customer.',
  },
  carts: { text: 'Create carts with exchange items, and read them.' },
  developer_tools: {
    text: 'Create, change and delete webhooks, which receive returns with their customers; see and repeat deliveries, and see signing secrets.',
  },
  'destinations:read': { text: 'See destinations: the places that returned goods go to.' },
  'destinations:write': { text: 'Change destinations.' },
  'labels:write': {
    text: 'For label providers: record shipping labels, and report where parcels are.',
  },
  'giftcards:write': { text: 'For gift card providers: record the gift cards that were issued.' },
};

export function isScope(text: string): text is Scope {
  return SCOPES.some((scope) => scope === text);
}

/** The scopes of an operation, or of anything else that needs one of several scopes. */
interface Scoped {
  readonly scopes: readonly Scope[];
}

/** The scopes that open an operation: those that its entry names, then those that include one of them. */
export function scopesOpening({ scopes }: Scoped): readonly Scope[] {
  const including = SCOPES.filter(
    (scope) =>
      !scopes.includes(scope) && SCOPE_RULES[scope].includes?.some((one) => scopes.includes(one)),
  );
  return [...scopes, ...including];
}

/** Those of the scopes of a credential that open an operation; empty when the credential may not call it. */
export function openersAmong(held: readonly string[], operation: Scoped): readonly Scope[] {
  return scopesOpening(operation).filter((scope) => held.includes(scope));
}
