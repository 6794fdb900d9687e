/** Maximum length of a name in a mail or on a page for a person who is invited. Characters. */
const MAX_SHOWN = 60;

/**
 * The inviting person, for somebody who is no member and must not learn the shop: the name, or the part of the address
 * before the @, because the domain may be that of the shop.
 *
 * Anybody with a shop chooses names, and mails with them go to strangers. So a name has one line, is short, and contains
 * nothing that a mail program turns into a link.
 */
export function inviterText(inviter: {
  readonly name: string | null;
  readonly email: string;
}): string {
  const local = inviter.email.slice(0, inviter.email.lastIndexOf('@')).replace(/[._+-]+/g, ' ');
  const shown = oneLine(inviter.name ?? '') || oneLine(local);
  return shown === '' ? 'Somebody' : [...shown].slice(0, MAX_SHOWN).join('');
}

function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ')
    .replace(/([.:/\\@])(?=\S)/g, '$1 ')
    .replace(/\s+/g, ' ')
    .trim();
}
