package client

import "context"

func (c *Client) follow(ctx context.Context, r WatchRequest, ch chan<- Update) { <-ctx.Done() }
