import { serviceShape } from '../platform/config.ts';

/** The variables of the carts service. */
export const cartsShape = { ...serviceShape };
