/**
 * An e-mail address as lists show it: a known address can be recognised, an unknown one cannot be used.
 * `ada@example.com` becomes `a***@example.com`.
 */
export function maskedEmail(email: string | undefined): string | null {
  if (email === undefined || email === '') return null;
  const at = email.lastIndexOf('@');
  const [first = ''] = email;
  return at > 0 ? `${first}***${email.slice(at)}` : '***';
}
