import { create } from '@bufbuild/protobuf';
import { ActorSchema } from '../../../../proto/gen/rms/common/v1/actor_pb.ts';
import { COMMERCE_LINES_MAX } from '../../../contract/limits.ts';
import { invalidField } from '../../../platform/errors.ts';
import { systemActor } from '../../../platform/identity.ts';
import type { Queryable } from '../../../platform/postgres.ts';
import type { NewTimelineEntry } from '../../store/timeline-store.ts';
import type { ProviderOrderId } from './lock-order.ts';

/** The actor of changes that a provider reports. */
export const COMMERCE_ACTOR = create(ActorSchema, systemActor('commerce'));

/** Checks the number of lines. @throws DomainError INVALID_ARGUMENT */
export function requireLines(lines: readonly unknown[]): void {
  if (lines.length <= COMMERCE_LINES_MAX) return;
  throw invalidField('lines', `must hold at most ${COMMERCE_LINES_MAX} lines`);
}

/** An event about an order at the provider, as a timeline entry. */
interface News {
  readonly kind: string;
  readonly text: string;
  readonly facts: Readonly<Record<string, string>>;
  /** Only returns with one of these lines get the entry; absent or empty for all returns of the order. */
  readonly lines?: readonly bigint[];
}

/**
 * Adds one timeline entry to each return of the order that is open or in review and has one of `news.lines`. The caller
 * must have locked the returns.
 */
export async function newsOf(
  tx: Queryable,
  of: ProviderOrderId,
  news: News,
): Promise<NewTimelineEntry[]> {
  const { kind, text, facts, lines = [] } = news;
  const { rows } = await tx.query<{ id: bigint }>(
    `select r.id from returns r
      where r.shop_id = $1 and r.state in ('open', 'review')
        and r.order_id = (select id from orders where shop_id = $1 and provider_order_id = $2)
        and ($3::bigint[] = '{}' or exists (
          select from return_lines l
           where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
             and l.provider_line_item_id = any($3::bigint[])))
      order by r.id`,
    [of.shopId, of.providerOrderId, lines],
  );
  return rows.map(({ id }) => ({ returnId: id, kind, text, facts }));
}
