import { OutsideLink } from '../../parts/outside-link.tsx';
import { useSession } from '../../session/session.tsx';

/** Leads to what an endpoint must do, where the gateway serves the documentation. */
export function CommerceDocs() {
  const docsUrl = useSession().links?.docsUrl ?? '';
  if (docsUrl === '') return null;
  return <OutsideLink url={`${docsUrl}/commerce`}>What your endpoint must do</OutsideLink>;
}
