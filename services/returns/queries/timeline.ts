import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import {
  type GetTimelineRequest,
  type TimelineEntry,
  TimelineEntrySchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { actorKindText } from '../../platform/values/actor.ts';
import { callerShape, id, parseInput, text } from '../../platform/values/input.ts';
import { bindCursor, placeInCursor } from '../../platform/values/list-cursor.ts';
import { returnNotFound } from '../errors.ts';
import type { ReturnRef } from '../return.ts';
import { decodeCursor, encodeCursor, pageSize } from './cursor.ts';

interface EntryRow {
  readonly id: bigint;
  readonly return_id: bigint;
  readonly occurred_at: Date;
  readonly kind: string;
  readonly text: string;
  readonly author: string;
  readonly facts: Record<string, string>;
  readonly actor_kind: string;
  readonly actor_id: string;
  readonly actor_name: string;
  readonly actor_through: string;
}

const COLUMNS =
  'id, return_id, occurred_at, kind, text, author, facts, actor_kind, actor_id, actor_name, actor_through';

function toEntry(row: EntryRow): TimelineEntry {
  return create(TimelineEntrySchema, {
    id: row.id,
    returnId: row.return_id,
    occurredAt: timestampFromDate(row.occurred_at),
    kind: row.kind,
    text: row.text,
    author: row.author,
    facts: row.facts,
    actor: {
      kind: actorKindText.fromText(row.actor_kind),
      id: row.actor_id,
      name: row.actor_name,
      through: row.actor_through,
    },
  });
}

/** @throws DomainError RETURN_NOT_FOUND */
export async function requireReturn(db: Queryable, { shopId, returnId }: ReturnRef): Promise<void> {
  const { rowCount } = await db.query('select from returns where shop_id = $1 and id = $2', [
    shopId,
    returnId,
  ]);
  if (rowCount === 0) throw returnNotFound();
}

/** Reads an entry that exists. */
export async function readEntry(
  db: Queryable,
  o: ReturnRef & { readonly entryId: bigint },
): Promise<TimelineEntry> {
  const found = await db.query<EntryRow>(
    `select ${COLUMNS} from timeline where shop_id = $1 and return_id = $2 and id = $3`,
    [o.shopId, o.returnId, o.entryId],
  );
  return toEntry(onlyRow(found));
}

const page = z.object({
  ...callerShape,
  returnId: id,
  pageSize,
  cursor: z.string(),
  kinds: z.array(text(100)).max(20, 'must hold at most 20'),
});
const cursorParts = z.tuple([z.string().regex(/^\d{1,16}$/)]);

/**
 * Lists the timeline entries of a return, newest first: all entries, or those of some kinds.
 *
 * @throws DomainError INVALID_ARGUMENT (also for an invalid cursor); RETURN_NOT_FOUND.
 */
export async function getTimeline(
  pool: pg.Pool,
  request: GetTimelineRequest,
): Promise<{ entries: TimelineEntry[]; nextCursor: string }> {
  const input = parseInput(page, request);
  const { shopId, returnId, kinds } = input;
  const list = { shopId, returnId, ...(kinds.length > 0 && { kinds }) };
  const place = placeInCursor(input.cursor, list);
  const [before] = decodeCursor(place, cursorParts) ?? [null];
  await requireReturn(pool, input);
  const { rows } = await pool.query<EntryRow>(
    `select ${COLUMNS} from timeline
      where shop_id = $1 and return_id = $2 and ($3::bigint is null or id < $3)
        and ($5::text[] is null or kind = any($5))
      order by id desc limit $4`,
    [shopId, returnId, before, input.pageSize + 1, kinds.length > 0 ? kinds : null],
  );
  const shown = rows.slice(0, input.pageSize);
  const last = shown.at(-1);
  const next = rows.length > shown.length && last ? encodeCursor([`${last.id}`]) : '';
  return {
    entries: shown.map(toEntry),
    nextCursor: bindCursor(next, list),
  };
}
