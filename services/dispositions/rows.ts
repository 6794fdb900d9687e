import { actorKindText } from '../platform/values/actor.ts';
import type { Inspection } from './inspection.ts';

export interface Row {
  readonly id: bigint;
  readonly line_item_id: bigint;
  readonly outcome: string | null;
  readonly quantity: number | null;
  readonly category: string | null;
  readonly subject: string | null;
  readonly title: string | null;
  readonly category_parent: string | null;
  readonly description: string | null;
  readonly return_processor: string | null;
  readonly note: string | null;
  readonly note_sha256: Buffer | null;
  readonly description_sha256: Buffer | null;
  readonly inspected_at: Date;
  readonly images: string[];
  readonly actor_kind: string;
  readonly actor_id: string;
  readonly actor_name: string;
}

/** The columns of table `inspections` (alias `i`) that {@link toInspection} needs. */
export const COLUMNS = `i.id, i.line_item_id, i.outcome, i.quantity, i.category, i.subject, i.title, i.category_parent,
  i.description, i.return_processor, i.note, i.note_sha256, i.description_sha256, i.inspected_at, i.images, i.actor_kind, i.actor_id, i.actor_name`;

export function toInspection(row: Row): Inspection {
  return {
    id: row.id,
    lineItemId: row.line_item_id,
    outcome: row.outcome ?? undefined,
    quantity: row.quantity ?? undefined,
    category: row.category ?? undefined,
    subject: row.subject ?? undefined,
    title: row.title ?? undefined,
    categoryParent: row.category_parent ?? undefined,
    description: row.description ?? undefined,
    returnProcessor: row.return_processor ?? undefined,
    note: row.note ?? undefined,
    inspectedAt: row.inspected_at,
    images: row.images,
    actor: {
      kind: actorKindText.fromText(row.actor_kind),
      id: row.actor_id,
      name: row.actor_name,
    },
  };
}
