import { CloseButton, Group, Title } from '@mantine/core';
import { type ReactNode, useId, useLayoutEffect, useRef } from 'react';
import styles from './dialog.module.css';

/**
 * A dialog over the page. The browser's own `<dialog>` keeps the focus inside, closes on Escape, and gives the focus
 * back.
 */
export function Dialog(o: {
  readonly title: string;
  readonly onClose: () => void;
  readonly size?: 'lg';
  /** Only the dialog's own button closes it, because something in it would be lost. */
  readonly sticky?: boolean;
  /** Nothing closes it, because a write has no answer yet. */
  readonly busy?: boolean;
  readonly children: ReactNode;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const stays = o.sticky || o.busy;
  // A layout effect ends before the element is removed, so that closing gives the focus back.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>('[data-autofocus]')?.focus();
    return () => dialog?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keyboard closes it with Escape.
    <dialog
      ref={element}
      className={styles.dialog}
      data-size={o.size}
      data-sticky={o.sticky}
      aria-labelledby={titleId}
      onCancel={(event) => {
        // React decides whether the dialog is there.
        event.preventDefault();
        if (!stays) o.onClose();
      }}
      // Not known to every browser. Without it, Chromium closes at the second Escape, whatever the page says to the first.
      closedby={stays ? 'none' : 'closerequest'}
      onClose={() => {
        if (stays) element.current?.showModal();
      }}
      onClick={({ target }) => {
        if (target === element.current && !stays) o.onClose();
      }}
    >
      <div className={styles.content}>
        <Group justify="space-between" align="flex-start" wrap="nowrap" mb="md">
          <Title order={2} id={titleId}>
            {o.title}
          </Title>
          {!o.sticky && (
            <CloseButton aria-label="Close" disabled={o.busy ?? false} onClick={o.onClose} />
          )}
        </Group>
        {o.children}
      </div>
    </dialog>
  );
}
