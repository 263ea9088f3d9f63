package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// askTimeout is how long a connection may take. It is shorter than the time after which TCP tries again.
const askTimeout = 900 * time.Millisecond

// tally counts the connections to an address.
type tally struct {
	mu         sync.Mutex
	sent, lost int
}

// askAll opens connections to addresses, ten a second to each, until the context ends. Every second it writes for each how many
// there were, and how many got no answer.
func askAll(ctx context.Context, addresses []string) {
	for _, address := range addresses {
		go new(tally).run(ctx, address)
	}
	<-ctx.Done()
}

func (t *tally) run(ctx context.Context, address string) {
	for n := 1; ctx.Err() == nil; n++ {
		go t.ask(ctx, address)
		if n%10 == 0 {
			t.mu.Lock()
			fmt.Println(address, t.sent, t.lost)
			t.mu.Unlock()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (t *tally) ask(ctx context.Context, address string) {
	conn, err := (&net.Dialer{Timeout: askTimeout}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent++; err != nil {
		t.lost++
	}
}
