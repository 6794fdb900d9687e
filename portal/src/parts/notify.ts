import { explain } from '../api/errors.ts';

/** A message about an action of the user. */
export interface Notice {
  readonly id: number;
  readonly title?: string;
  readonly text: string;
  readonly isFailure: boolean;
  /** Takes the action back. The promise fails when that did not work. */
  readonly undo?: () => Promise<void>;
}

/** How long a success is shown. Milliseconds. */
const SHOWN_MS = 6_000;
/** How long an action can be taken back. Milliseconds. */
const UNDO_MS = 20_000;

let notices: readonly Notice[] = [];
let lastId = 0;
/** What closes messages, by their ids. */
const timers = new Map<number, ReturnType<typeof setTimeout>>();
const listeners = new Set<() => void>();

/** Says for some seconds that an action has worked. @param undo takes it back, if that is possible. */
export function notifyDone(text: string, undo?: () => Promise<void>): void {
  const id = add({ text, isFailure: false, ...(undo && { undo }) });
  timers.set(
    id,
    setTimeout(() => closeNotice(id), undo ? UNDO_MS : SHOWN_MS),
  );
}

/** Says that an action has no answer yet. @returns the id of the message, which is closed when there is an answer. */
export function notifySent(): number {
  return add({ text: 'Sent, no answer yet.', isFailure: false });
}

/** Says that an earlier try may have made this change, until the reader closes it. */
export function notifyOnce(): void {
  const text =
    'This try and the earlier one without an answer count as one. To do it a second time, do it again.';
  add({ title: 'Done once', text, isFailure: false });
}

/** Says why an action has failed, until the reader closes it. */
export function notifyFailure(error: unknown): void {
  add({ ...explain(error), isFailure: true });
}

/** Says what did not work, until the reader closes it. */
export function notifyProblem(title: string, text: string): void {
  add({ title, text, isFailure: true });
}

/** Keeps a message until the reader closes it. */
export function keepNotice(id: number): void {
  clearTimeout(timers.get(id));
}

export function closeNotice(id: number): void {
  timers.delete(id);
  change(notices.filter((notice) => notice.id !== id));
}

/** An action can be taken back on the page where it was made. On another one, a button would not say what it changes. */
export function closeUndos(): void {
  change(notices.filter(({ undo }) => !undo));
}

export function currentNotices(): readonly Notice[] {
  return notices;
}

/** @returns a function that ends the subscription. */
export function onNotices(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function add(notice: Omit<Notice, 'id'>): number {
  lastId += 1;
  change([...notices, { id: lastId, ...notice }]);
  return lastId;
}

function change(next: readonly Notice[]): void {
  notices = next;
  for (const listener of listeners) listener();
}
