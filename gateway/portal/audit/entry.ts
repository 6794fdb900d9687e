import { z } from 'zod';
import { alikeText, type LoggedEntry } from '../../tenancy/audit-list.ts';
import type { AuditNames } from '../../tenancy/audit-names.ts';
import type { FieldChange } from '../../tenancy/field-change.ts';
import { actionWords, actOf, objectKind } from './words.ts';

/** An entry of the audit log for people. */
export interface ReadableEntry extends LoggedEntry {
  /** What was done: one name, whatever the door. */
  readonly act: string;
  /** What was done, in words. */
  readonly what: string;
  /** E-mail address of the user who did it; empty when no user did it, or the user is gone. */
  readonly actorEmail: string;
  /** What the object is, such as `webhook`; empty for none. */
  readonly objectKind: string;
  /** The name of the object; empty when unknown. */
  readonly objectName: string;
  readonly changes: readonly FieldChange[];
  /**
   * `done`, `refused` or `unknown`, in entries of 1.0.0 also `asked` before the outcome; empty for an entry that was
   * written with its change.
   */
  readonly outcome: string;
  /** The id of the call; empty for an entry that was written with its change. */
  readonly call: string;
}

/** Adds words and names to an entry. */
export function readableEntry(entry: LoggedEntry, names: AuditNames): ReadableEntry {
  const { action, actorKind, actorId, actorName, subject, detail } = entry;
  const user = actorKind === 'user' ? names.users.get(actorId) : undefined;
  const keyName = actorKind === 'api_key' ? names.keys.get(actorId) : undefined;
  const kind = objectKind(action);
  return {
    ...entry,
    actorName: actorName || (user?.name ?? keyName ?? ''),
    actorEmail: user?.email ?? '',
    act: actOf(action),
    what: [actionWords(action), ...alikeText(entry)].join(', '),
    objectKind: subject === '' ? '' : kind,
    objectName: objectName(kind, entry, names),
    changes: 'call' in detail ? noted(detail.changes) : changesIn(detail),
    outcome: textOf(detail.phase),
    call: textOf(detail.call),
  };
}

function objectName(kind: string, { subject, detail }: LoggedEntry, names: AuditNames): string {
  const user = kind === 'member' ? names.users.get(subject) : undefined;
  if (user) return [user.name, user.email].filter((text) => text !== '').join(', ');
  if (kind === 'key') return names.keys.get(subject) ?? '';
  if (kind === 'invitation') return names.invitations.get(subject) ?? '';
  if (kind !== 'assistant') return '';
  const selfName = textOf(detail.calls_itself);
  return `${textOf(detail.app)}${selfName === '' ? '' : `, calls itself “${selfName}”`}`;
}

const stored = z.array(
  z.object({ field: z.string(), from: z.string().optional(), to: z.string().optional() }),
);

/** The changes that an action noted. */
function noted(value: unknown): FieldChange[] {
  const parsed = stored.safeParse(value);
  if (!parsed.success) return [];
  return parsed.data.map(({ field, from, to }) => ({
    field,
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
  }));
}

/** Ids that say nothing to people. The export has them in the detail. */
const IDS: ReadonlySet<string> = new Set([
  'client_id',
  'user_id',
  'owner_user_id',
  'issuer',
  'invited_by',
  'replaced_id',
  'grant',
]);

/** The detail of an entry that was written with its change. `from` and `to` are roles. */
function changesIn({ from, to, ...others }: LoggedEntry['detail']): FieldChange[] {
  const role = {
    ...(from !== undefined && { from: textOf(from) }),
    ...(to !== undefined && { to: textOf(to) }),
  };
  return [
    ...(Object.keys(role).length > 0 ? [{ field: 'role', ...role }] : []),
    ...Object.entries(others)
      .filter(([field]) => !IDS.has(field))
      .map(([field, value]) => ({ field, to: textOf(value) })),
  ];
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? value.map(textOf).join(', ') : JSON.stringify(value);
}

/** A change in one line, such as `url: https://a.example → https://b.example`. */
export function changeText({ field, from, to }: FieldChange): string {
  const name = field.replaceAll('_', ' ');
  if (from === undefined) return `${name}: ${to ?? 'changed'}`;
  return `${name}: ${from} → ${to ?? 'none'}`;
}
