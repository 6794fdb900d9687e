import { Text } from '@mantine/core';
import { MEANINGS, type Term } from '../meanings.ts';

/** What words of the portal mean, in plain sentences, at the place where a reader sees them first. */
export function Meaning({ of }: { readonly of: readonly Term[] }) {
  return (
    <Text size="sm" c="dimmed">
      {of.map((term) => MEANINGS[term]).join(' ')}
    </Text>
  );
}
