import { MEANINGS, type Term } from '../meanings.ts';
import { Facts } from './facts.tsx';

/** What these words mean. */
export function MeaningList({ of }: { readonly of: readonly Term[] }) {
  return <Facts rows={of.map((term) => [term, MEANINGS[term]] as const)} />;
}
