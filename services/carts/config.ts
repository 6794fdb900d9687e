import { serviceShape } from '../platform/config.ts';

/** The environment variables of the carts service. */
export const cartsShape = { ...serviceShape };
