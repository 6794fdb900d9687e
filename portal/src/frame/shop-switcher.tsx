import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { useWrite } from '../api/use-write.ts';
import { ActionMenu } from '../parts/action-menu.tsx';
import { leave } from '../session/leave.ts';
import { useSession } from '../session/session.tsx';
import { announceMove } from '../session/shop-channel.ts';
import { roleName } from '../words.ts';
import styles from './frame.module.css';

/** The shop of the session; a menu when the user has several. */
export function ShopSwitcher() {
  const { shop, shops } = useSession();
  const { run } = useWrite(SessionService.method.switchShop, {
    // The page starts again, so that nothing of the former shop is shown or called.
    onSuccess: () => {
      announceMove();
      leave('/portal/');
    },
  });
  if (shops.length < 2) return <span className={styles.name}>{shop.name}</span>;
  return (
    <ActionMenu
      label={shop.name}
      name={`Shop: ${shop.name}. Switch to another`}
      align="start"
      actions={shops.map(({ id, name, role, sandbox }) => ({
        key: id,
        title: `${name}${sandbox ? ' (sandbox)' : ''} · ${roleName(role)}`,
        current: id === shop.id,
        run: () => id !== shop.id && run({ shopId: id }),
      }))}
    />
  );
}
