import { createHash } from 'node:crypto';
import { clone, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LONG_TEXT_BYTES } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import type { EncodedReturn } from './encoded.ts';

/** The maximum size of the value of a column. Bytes. */
const MAX_BYTES = 2 ** 31 - 1;
/** Prefix of a hash. It begins with NUL, which no stored text has, so no text begins with this prefix. */
const HASH_PREFIX = '\0sha256:';

export interface SnapshotKey {
  readonly shopId: bigint;
  readonly returnId: bigint;
  readonly revision: bigint;
}

/** Returns the size of all long texts of a return. Bytes. */
export function longTextBytes(details: Return): number {
  let bytes = 0;
  forTexts(details, (text) => {
    if (isLong(text)) bytes += Buffer.byteLength(text);
    return text;
  });
  return bytes;
}

/**
 * Stores a snapshot that is not in its events. Its long texts are not copied. {@link readSnapshot} finds them in the
 * line items. When a line item has other texts in the meantime, it finds them in the timeline.
 */
export async function insertSnapshot(tx: Queryable, snapshot: EncodedReturn): Promise<void> {
  await tx.query(
    `insert into snapshots (shop_id, return_id, revision, value) values ($1, $2, $3, $4)
     on conflict (shop_id, return_id, revision) do nothing`,
    [snapshot.shopId, snapshot.id, snapshot.revision, withoutTexts(snapshot.of)],
  );
}

/**
 * Reads a stored snapshot with its long texts. Undefined when there is none. Returns `large` when the snapshot or its
 * long texts are larger than `maxBytes`.
 */
export async function readSnapshot(
  db: Queryable,
  key: SnapshotKey,
  maxBytes = MAX_BYTES,
): Promise<Return | 'large' | undefined> {
  const stored = await readStored(db, key, maxBytes);
  if (!stored || stored === 'large') return stored;
  const hashes = new Set<string>();
  forTexts(stored, (text) => {
    if (text.startsWith(HASH_PREFIX)) hashes.add(text);
    return text;
  });
  if (hashes.size === 0) return stored;
  const { rows } = await db.query<{ text: string }>(TEXTS, [
    key.shopId,
    key.returnId,
    [...hashes].map((hash) => Buffer.from(hash.slice(HASH_PREFIX.length), 'base64url')),
    LONG_TEXT_BYTES,
    maxBytes,
  ]);
  if (rows.length === 0 && maxBytes < MAX_BYTES) return 'large';
  const texts = new Map(rows.map(({ text }) => [hashOf(text), text]));
  forTexts(stored, (text) => {
    if (!hashes.has(text)) return text;
    const found = texts.get(text);
    if (found === undefined) throw new Error('a long text of a snapshot is not stored');
    return found;
  });
  return stored;
}

/** Changes a stored snapshot, except its long texts. Has no effect when there is none. */
export async function changeSnapshot(
  tx: Queryable,
  key: SnapshotKey,
  change: (of: Return) => void,
): Promise<void> {
  const stored = await readStored(tx, key, MAX_BYTES);
  if (!stored || stored === 'large') return;
  change(stored);
  await tx.query(
    'update snapshots set value = $4 where shop_id = $1 and return_id = $2 and revision = $3',
    [key.shopId, key.returnId, key.revision, withoutTexts(stored)],
  );
}

async function readStored(
  db: Queryable,
  key: SnapshotKey,
  maxBytes: number,
): Promise<Return | 'large' | undefined> {
  const { rows } = await db.query<{ value: Buffer | null }>(
    `select case when octet_length(value) <= $4 then value end as value
       from snapshots where shop_id = $1 and return_id = $2 and revision = $3`,
    [key.shopId, key.returnId, key.revision, maxBytes],
  );
  const [row] = rows;
  if (!row) return undefined;
  return row.value ? fromBinary(ReturnSchema, row.value) : 'large';
}

function withoutTexts(of: Return): Uint8Array {
  const short = clone(ReturnSchema, of);
  delete short.submitter;
  forTexts(short, (text) => (isLong(text) ? hashOf(text) : text));
  return toBinary(ReturnSchema, short);
}

function isLong(text: string): boolean {
  // UTF-8 has at most three bytes for each UTF-16 unit. So most texts need not be measured.
  return text.length * 3 > LONG_TEXT_BYTES && Buffer.byteLength(text) > LONG_TEXT_BYTES;
}

function hashOf(text: string): string {
  return hashText(createHash('sha256').update(text).digest());
}

/** Returns the hash that a snapshot has in place of a text. @param sha256 hash of the text in UTF-8. */
export function hashText(sha256: Buffer): string {
  return `${HASH_PREFIX}${sha256.toString('base64url')}`;
}

/** Replaces the notes and descriptions of all line items. */
export function forTexts(of: Return, replace: (text: string) => string): void {
  for (const { condition, disposition } of of.lineItems) {
    if (disposition?.note !== undefined) disposition.note = replace(disposition.note);
    if (condition?.note !== undefined) condition.note = replace(condition.note);
    if (condition) condition.description = replace(condition.description);
  }
}

const TEXTS = `
with found as materialized (
select text from (
  select d.note as text
    from return_lines l join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
   where l.shop_id = $1 and l.return_id = $2
  union all
  select unnest(array[c.note, c.description])
    from return_lines l join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
   where l.shop_id = $1 and l.return_id = $2
  union all
  select unnest(array[facts ->> 'former_note', facts ->> 'former_description'])
    from timeline where shop_id = $1 and return_id = $2 and kind in ('line.assessed', 'line.graded')
) texts
 where octet_length(text) > $4 and sha256(convert_to(text, 'UTF8')) = any ($3::bytea[]))
select text from found where (select sum(octet_length(text)) from found) <= $5`;
