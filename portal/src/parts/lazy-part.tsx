import { type ComponentType, lazy, Suspense } from 'react';
import { notifyProblem } from './notify.ts';
import { LoadingRows } from './states.tsx';

/**
 * A component that is loaded when it is first shown, such as a dialog, so that the page itself stays small. When its
 * script cannot be loaded, a message says so, and the page stays with what was typed.
 *
 * @param rows the space that it takes while it is loaded; 0 for a dialog.
 */
export function lazyPart<P extends object>(
  load: () => Promise<ComponentType<P>>,
  rows = 0,
): ComponentType<P> {
  const none = () => {
    notifyProblem(
      'A part of the page did not load',
      'Check your connection, then load the page again.',
    );
    return () => null;
  };
  const Part = lazy(async () => ({ default: await load().catch(none) }));
  const wait = rows > 0 ? <LoadingRows rows={rows} /> : null;
  return (props) => (
    <Suspense fallback={wait}>
      <Part {...props} />
    </Suspense>
  );
}
