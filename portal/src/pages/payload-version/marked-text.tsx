import { Code } from '@mantine/core';
import { Fragment } from 'react';

/** A sentence whose names of fields are in backticks. */
export function MarkedText({ text }: { readonly text: string }) {
  return text.split('`').map((part, place) =>
    place % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text never move.
      <Code key={place}>{part}</Code>
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: as above.
      <Fragment key={place}>{part}</Fragment>
    ),
  );
}
