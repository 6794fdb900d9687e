import { type ComponentType, lazy, Suspense } from 'react';

/** A component that is loaded when it is first shown, such as a dialog, so that the page itself stays small. */
export function lazyPart<P extends object>(
  load: () => Promise<ComponentType<P>>,
): ComponentType<P> {
  const Part = lazy(async () => ({ default: await load() }));
  return (props) => (
    <Suspense fallback={null}>
      <Part {...props} />
    </Suspense>
  );
}
