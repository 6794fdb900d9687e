import { changeText, type ReadableEntry } from './entry.ts';

/** The columns of the CSV file, and their values. */
const COLUMNS: Readonly<Record<string, (entry: ReadableEntry) => string>> = {
  id: ({ id }) => String(id),
  at: ({ at }) => at.toISOString(),
  actor_kind: ({ actorKind }) => actorKind,
  actor_id: ({ actorId }) => actorId,
  actor_name: ({ actorName }) => actorName,
  actor_email: ({ actorEmail }) => actorEmail,
  source: ({ source }) => source ?? '',
  request_id: ({ requestId }) => requestId ?? '',
  what: ({ what }) => what,
  action: ({ action }) => action,
  outcome: ({ outcome }) => outcome,
  object_kind: ({ objectKind }) => objectKind,
  subject: ({ subject }) => subject,
  object_name: ({ objectName }) => objectName,
  changes: ({ changes }) => changes.map(changeText).join('; '),
  detail: ({ detail }) => JSON.stringify(detail),
  // The last, so that programs that read by position go on.
  act: ({ act }) => act,
};

/** Lines of CSV (RFC 4180), each with its line break. */
export function auditCsv(
  entries: readonly ReadableEntry[],
  { withHeader }: { readonly withHeader: boolean },
): string {
  const rows = entries.map((entry) => Object.values(COLUMNS).map((read) => read(entry)));
  return [...(withHeader ? [Object.keys(COLUMNS)] : []), ...rows]
    .map((row) => `${row.map(cell).join(',')}\r\n`)
    .join('');
}

/**
 * Spreadsheets run a text that begins with one of these characters as a formula (OWASP, CSV injection), also after blanks
 * and in their wide forms. A part of a text can become a cell of its own, because some spreadsheets expect another
 * separator than the comma.
 */
const FORMULA = /(^|[,;\t\r\n])([\s\p{Cf}"]*)(?=[=+\-@\uFF1D\uFF0B\uFF0D\uFF20])/gu;

/** A cell in quotes, whose text no spreadsheet runs. */
function cell(text: string): string {
  return `"${text.replace(FORMULA, "$1$2'").replaceAll('"', '""')}"`;
}

/** One JSON object per line, each with its line break. */
export function auditJsonLines(entries: readonly ReadableEntry[]): string {
  return entries.map((entry) => `${JSON.stringify(jsonOf(entry))}\n`).join('');
}

function jsonOf(entry: ReadableEntry) {
  const { at, what, act, action, outcome, changes, source, requestId, detail } = entry;
  return {
    id: String(entry.id),
    at: at.toISOString(),
    what,
    act,
    action,
    outcome,
    actor: {
      kind: entry.actorKind,
      id: entry.actorId,
      name: entry.actorName,
      email: entry.actorEmail,
    },
    object: { kind: entry.objectKind, id: entry.subject, name: entry.objectName },
    changes,
    source,
    request_id: requestId,
    detail,
  };
}
