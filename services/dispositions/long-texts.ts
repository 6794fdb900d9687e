import { createHash } from 'node:crypto';
import { DISPOSITION_ITEMS_MAX } from '../contract/limits.ts';
import { DISPOSITIONS, type HandOverDeps } from './hand-over.ts';
import type { Finding, Inspection } from './inspection.ts';
import type { Current } from './store.ts';

/** An inspection. When it was read from the table, it has hashes of its long texts, which only returns stores. */
export type WithHashes = Inspection & Partial<Pick<Current, 'hashes'>>;

/** The inspection with the texts of the finding, if they have the stored hashes. */
export function withTextsOf(current: Current, finding: Finding): Current {
  const { note, description } = current.hashes;
  return {
    ...current,
    ...(isHashOf(note, finding.note) && { note: finding.note }),
    ...(isHashOf(description, finding.description) && { description: finding.description }),
  };
}

function isHashOf(hash: Buffer | null, text: string | undefined): boolean {
  if (hash === null || text === undefined) return false;
  return createHash('sha256').update(text).digest().equals(hash);
}

/**
 * Returns assessments with their notes. It reads long notes from returns, which stores them. An assessment that another
 * one replaces during this call gets no note.
 */
export async function withNotes(
  { returns }: Pick<HandOverDeps, 'returns'>,
  shopId: bigint,
  assessments: readonly WithHashes[],
): Promise<readonly Inspection[]> {
  const withoutNote = assessments.filter(
    ({ note, hashes }) => note === undefined && hashes !== undefined && hashes.note !== null,
  );
  const notes = new Map<bigint, string>();
  for (let from = 0; from < withoutNote.length; from += DISPOSITION_ITEMS_MAX) {
    const some = withoutNote.slice(from, from + DISPOSITION_ITEMS_MAX);
    const lineItemIds = some.map(({ lineItemId }) => lineItemId);
    const call = { shopId, actor: DISPOSITIONS, lineItemIds, withNotes: true };
    for (const { assessmentId, note } of (await returns.checkLineItems(call)).owners) {
      if (note !== undefined) notes.set(assessmentId, note);
    }
  }
  return assessments.map((one) => ({ ...one, note: one.note ?? notes.get(one.id) }));
}
