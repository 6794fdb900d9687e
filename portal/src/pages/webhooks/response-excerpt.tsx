import { Code } from '@mantine/core';

/** The beginning of what the receiver answered: often it says itself what to change. It may have any characters. */
export function ResponseExcerpt({ text }: { readonly text: string }) {
  if (text === '') return null;
  return (
    <div>
      It answered: <Code style={{ overflowWrap: 'anywhere' }}>{text}</Code>
    </div>
  );
}
