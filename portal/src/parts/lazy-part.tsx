import { type ComponentType, lazy, Suspense, useEffect, useState } from 'react';
import { notifyProblem } from './notify.ts';
import { ErrorState, LoadingRows } from './states.tsx';

/** A part whose script was loaded, or what is shown in its place. */
type Tried<P> = ComponentType<{ readonly of: P; readonly again: () => void }>;

/**
 * A component that is loaded when it is first shown, such as a dialog, so that the page itself stays small. When its
 * script cannot be loaded, the page stays with what was typed. A part of the page then offers to try again in its place;
 * a dialog is closed with a message, and is loaded again when it is opened again.
 *
 * @param rows the space that it takes while it is loaded; 0 for a dialog.
 */
export function lazyPart<P extends object>(
  load: () => Promise<ComponentType<P>>,
  rows = 0,
): ComponentType<P> {
  const attempt = () => lazy(async () => ({ default: await load().then(loaded, failed) }));
  const loaded =
    (Part: ComponentType<P>): Tried<P> =>
    ({ of }) => <Part {...of} />;
  const failed = (error: unknown): Tried<P> => {
    newest = attempt();
    if (rows > 0) return ({ again }) => <ErrorState error={error} retry={again} />;
    notifyProblem(
      'A part of the page did not load',
      'Check your connection and try again. If it fails again, load the page again.',
    );
    return Closed;
  };
  let newest = attempt();
  const wait = rows > 0 ? <LoadingRows rows={rows} /> : null;
  return (props) => {
    const [Part, setPart] = useState(() => newest);
    return (
      <Suspense fallback={wait}>
        <Part of={props} again={() => setPart(() => newest)} />
      </Suspense>
    );
  };
}

/** Closes a dialog that could not be loaded. */
function Closed({ of }: { readonly of: object }) {
  useEffect(() => {
    if ('onClose' in of && typeof of.onClose === 'function') of.onClose();
  }, [of]);
  return null;
}
