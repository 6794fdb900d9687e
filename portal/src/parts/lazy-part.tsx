import { type ComponentType, lazy, Suspense } from 'react';
import { LoadingRows } from './states.tsx';

/**
 * A component that is loaded when it is first shown, such as a dialog, so that the page itself stays small.
 *
 * @param rows the space that it takes while it is loaded; 0 for a dialog.
 */
export function lazyPart<P extends object>(
  load: () => Promise<ComponentType<P>>,
  rows = 0,
): ComponentType<P> {
  const Part = lazy(async () => ({ default: await load() }));
  const wait = rows > 0 ? <LoadingRows rows={rows} /> : null;
  return (props) => (
    <Suspense fallback={wait}>
      <Part {...props} />
    </Suspense>
  );
}
