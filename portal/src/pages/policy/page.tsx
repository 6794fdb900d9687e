import { useQuery } from '@connectrpc/connect-query';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import { useSession } from '../../session/session.tsx';

const PolicyForm = lazyPart(async () => (await import('./form.tsx')).PolicyForm, 8);

/** How often the policy is read again, so that a colleague's change is seen. Milliseconds. */
const READ_EVERY_MS = 10_000;

/** What the shop takes back, and how. */
export function PolicyPage() {
  const { currency } = useSession().shop;
  const { getPolicy } = ReturnsService.method;
  const query = useQuery(getPolicy, {}, { refetchInterval: READ_EVERY_MS });
  return (
    <>
      <PageHead
        title="Policy"
        about="What your shop takes back, and how. A change makes a new version, which judges the returns from then on."
      />
      <Loaded query={query}>{(found) => <PolicyForm found={found} currency={currency} />}</Loaded>
    </>
  );
}
