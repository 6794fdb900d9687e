/**
 * Masks an e-mail address for a list: `ada@example.com` becomes `a***@example.com`. A reader who knows the address
 * recognizes the masked one.
 */
export function maskedEmail(email: string | undefined): string | null {
  if (email === undefined || email === '') return null;
  const at = email.lastIndexOf('@');
  const [first = ''] = email;
  return at > 0 ? `${first}***${email.slice(at)}` : '***';
}
