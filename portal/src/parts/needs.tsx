import type { ReactNode } from 'react';
import { NotAllowed } from '../frame/problems.tsx';
import { useSession } from '../session/session.tsx';

/** Shows a page, or says that the user's role does not include it. */
export function Needs(o: {
  readonly method: { readonly name: string; readonly parent: { readonly typeName: string } };
  readonly children: ReactNode;
}) {
  return useSession().can(o.method) ? o.children : <NotAllowed />;
}
