import { Fragment } from 'react';

/** An e-mail address or URL that breaks before `@` and after `/`, not inside of a word, where its place is too narrow. */
export function LongText({ text }: { readonly text: string }) {
  return text.split(/(?<=\/)|(?=@)/).map((part, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no id, and their order never changes.
    <Fragment key={index}>
      {index > 0 && <wbr />}
      {part}
    </Fragment>
  ));
}
