package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// answerTimeout is long, because TCP sends again what a network loses for a moment.
const answerTimeout = 30 * time.Second

// hold sends requests over one connection, five a second, and counts the answers on standard output. It returns an
// error when the connection breaks.
func hold(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: answerTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for n := 1; ; n++ {
		if err := ask(conn, answers); err != nil {
			return fmt.Errorf("request %d of one connection: %w", n, err)
		}
		fmt.Println(n)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func ask(conn net.Conn, answers *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: hold\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
