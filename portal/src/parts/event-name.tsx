import { Fragment } from 'react';
import styles from './event-name.module.css';

/** The name of an event, such as `return.closed`. Where its place is too narrow, it breaks after a dot, never in a word. */
export function EventName({ name }: { readonly name: string }) {
  return (
    <span className={styles.name}>
      {name.split(/(?<=\.)/).map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts have no id, and their order never changes.
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </span>
  );
}
