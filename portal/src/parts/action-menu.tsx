import { useClickOutside } from '@mantine/hooks';
import { type ReactNode, useId, useRef, useState } from 'react';
import styles from './action-menu.module.css';

/** One line of a menu. */
interface MenuAction {
  readonly title: ReactNode;
  readonly run?: () => void;
  /** A link instead of an action. */
  readonly href?: string;
  readonly danger?: boolean;
  /** The current choice of several. */
  readonly current?: boolean;
  /** A line above, with this heading unless it is empty. */
  readonly section?: string;
  readonly key: string;
}

/** A button that opens a list of actions. Escape, a click elsewhere and a focus elsewhere close it. */
export function ActionMenu(o: {
  readonly label: ReactNode;
  /** Names the button when its label alone does not. */
  readonly name?: string;
  readonly actions: readonly MenuAction[];
  readonly head?: ReactNode;
  readonly align?: 'start' | 'end';
}) {
  const [opened, setOpened] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const listId = useId();
  const close = () => setOpened(false);
  const root = useClickOutside<HTMLDivElement>(
    close,
    ['pointerdown', 'focusin'],
    undefined,
    opened,
  );

  const move = (step: number) => {
    const items = [...(root.current?.querySelectorAll<HTMLElement>('[data-item]') ?? [])];
    const focused = items.findIndex((item) => item.matches(':focus'));
    items.at((focused + step + items.length) % items.length)?.focus();
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === 'Escape' && opened) {
      event.stopPropagation();
      close();
      button.current?.focus();
    }
    if (!opened || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return;
    event.preventDefault();
    move(event.key === 'ArrowDown' ? 1 : -1);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys belong to the button and the list inside.
    <div ref={root} className={styles.root} onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        className={styles.button}
        aria-expanded={opened}
        aria-controls={listId}
        aria-label={o.name}
        onClick={() => setOpened(!opened)}
      >
        <span>{o.label}</span>
        <span aria-hidden>▾</span>
      </button>
      <div id={listId} className={styles.list} data-align={o.align ?? 'end'} hidden={!opened}>
        {o.head}
        <ul>
          {o.actions.map((action) => (
            <Item key={action.key} action={action} close={close} />
          ))}
        </ul>
      </div>
    </div>
  );
}

function Item({ action, close }: { readonly action: MenuAction; readonly close: () => void }) {
  const { title, run, href, danger, current, section } = action;
  const className = danger ? `${styles.item} ${styles.danger}` : styles.item;
  return (
    <li className={section === undefined ? '' : styles.section}>
      {section !== undefined && section !== '' && <span className={styles.heading}>{section}</span>}
      {href === undefined ? (
        <button
          type="button"
          data-item
          className={className}
          aria-current={current ? 'true' : undefined}
          onClick={() => {
            close();
            run?.();
          }}
        >
          {title}
        </button>
      ) : (
        <a data-item className={className} href={href} target="_blank" rel="noreferrer">
          {title}
        </a>
      )}
    </li>
  );
}
