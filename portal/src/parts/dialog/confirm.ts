import type { ReactNode } from 'react';

/** A question before something that cannot be undone. It says in plain words what will happen. */
export interface Question {
  readonly title: string;
  readonly text: ReactNode;
  /** The words of the button: the action itself, never "OK". */
  readonly action: string;
  readonly danger?: boolean;
  /** Does it. The question stays until the promise ends, and shows why it failed. */
  readonly onConfirm: () => Promise<void>;
}

let asked: Question | undefined;
const listeners = new Set<() => void>();

/** Asks the user; `Messages` shows it. */
export function confirm(question: Question): void {
  change(question);
}

export function closeQuestion(): void {
  change(undefined);
}

export function currentQuestion(): Question | undefined {
  return asked;
}

/** @returns a function that ends the subscription. */
export function onQuestion(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(next: Question | undefined): void {
  asked = next;
  for (const listener of listeners) listener();
}
