import { Code } from '@mantine/core';
import { CopyText } from '../copy.tsx';
import { prettyJson } from './pretty-json.ts';

/** JSON with line breaks. It scrolls, and a button copies it as it was sent. */
export function JsonText({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div>
      <CopyText value={text} label={label} />
      <Code
        block
        mah={420}
        mt="xs"
        style={{ overflow: 'auto' }}
        tabIndex={0}
        role="region"
        aria-label={label}
      >
        {prettyJson(text)}
      </Code>
    </div>
  );
}
