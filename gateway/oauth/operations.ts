/** What the paths of the sign-in are called in logs and metrics: names without what is secret in them. */
const OPERATIONS: readonly (readonly [RegExp, string])[] = [
  [/^\/\.well-known\/oauth-protected-resource(\/mcp)?$/, 'oauthResourceMetadata'],
  [/^\/\.well-known\/(openid-configuration|oauth-authorization-server)$/, 'oauthServerMetadata'],
  [/^\/oauth\/register$/, 'oauthRegister'],
  [/^\/oauth\/authorize$/, 'oauthAuthorize'],
  [/^\/oauth\/authorize\/[^/]+$/, 'oauthResume'],
  [/^\/oauth\/sign-in\/[^/]+(\/(shop|consent|allow|cancel))?$/, 'oauthSignIn'],
  [/^\/oauth\/callback$/, 'oauthCallback'],
  [/^\/oauth\/token$/, 'oauthToken'],
  [/^\/oauth\/revoke$/, 'oauthRevoke'],
  [/^\/oauth\/jwks$/, 'oauthKeys'],
];

/** Undefined for a path that is none of them. */
export function oauthOperation(path: string): string | undefined {
  return OPERATIONS.find(([form]) => form.test(path))?.[1];
}
