/** The address of the authorization server of partners' apps, `{auth_url}`: the issuer of their tokens. */
export function partnerIssuer(publicUrl: string): string {
  return `${publicUrl}/partners`;
}

/** The paths of that server, from the public address on. */
export const PARTNER_PATHS = {
  authorization: '/partners/authorize',
  token: '/partners/oauth/token',
  revocation: '/partners/oauth/revoke',
  jwks: '/partners/jwks',
  signIn: '/partners/sign-in',
} as const;

/** The path of the pages of one sign-in for a partner's app. */
export function partnerSignInPath(uid: string): string {
  return `${PARTNER_PATHS.signIn}/${uid}`;
}
