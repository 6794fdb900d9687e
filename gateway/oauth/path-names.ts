/**
 * Names for the paths of sign-ins and installs in logs and metrics, because the paths contain secrets. All these paths
 * share one bound of in-flight requests.
 */
const PATH_NAMES: readonly (readonly [RegExp, string])[] = [
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
  [/^\/portal\/sign-in$/, 'portalSignIn'],
  [/^\/portal\/callback$/, 'portalCallback'],
  [/^\/commerce\/shopify\/install$/, 'shopifyInstall'],
  [/^\/commerce\/shopify\/callback$/, 'shopifyCallback'],
];

/** The name of the path of a sign-in or an install; undefined for any other path. */
export function signInPathName(path: string): string | undefined {
  return PATH_NAMES.find(([form]) => form.test(path))?.[1];
}
