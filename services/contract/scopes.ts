/** The scopes of API keys and partners' tokens. `operations.ts` has the scope of each operation. */
export const SCOPES = [
  'returns',
  'carts',
  'developer_tools',
  'destinations:read',
  'destinations:write',
  'labels:write',
  'giftcards:write',
] as const;

export type Scope = (typeof SCOPES)[number];

export function isScope(text: string): text is Scope {
  return SCOPES.some((scope) => scope === text);
}
