/**
 * An e-mail address as lists show it: enough to recognise one that is known, too little to write to.
 * `ada@example.com` is `a***@example.com`.
 */
export function maskedEmail(email: string | undefined): string | null {
  if (email === undefined || email === '') return null;
  const at = email.lastIndexOf('@');
  const [first = ''] = email;
  return at > 0 ? `${first}***${email.slice(at)}` : '***';
}
