import type { LoggedEntry } from '../tenancy/audit-list.ts';

const COLUMNS = [
  'id',
  'at',
  'actor_kind',
  'actor_id',
  'actor_name',
  'source',
  'request_id',
  'action',
  'subject',
  'detail',
];

/** Lines of CSV (RFC 4180), each with its line break. */
export function auditCsv(
  entries: readonly LoggedEntry[],
  { withHeader }: { readonly withHeader: boolean },
): string {
  const rows = entries.map((entry) => [
    String(entry.id),
    entry.at.toISOString(),
    entry.actorKind,
    entry.actorId,
    entry.actorName,
    entry.source ?? '',
    entry.requestId ?? '',
    entry.action,
    entry.subject,
    JSON.stringify(entry.detail),
  ]);
  return [...(withHeader ? [COLUMNS] : []), ...rows]
    .map((row) => `${row.map(cell).join(',')}\r\n`)
    .join('');
}

/** Spreadsheets run a text that begins with one of these characters as a formula (OWASP, CSV injection). */
const FORMULA = /^[=+\-@\t\r]/;

function cell(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
