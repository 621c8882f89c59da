package main

import (
	"bufio"
	"log"
	"net"
	"sync"
	"time"
)

// The start of HTTP/2's connection preface, "PRI * HTTP/2.0". No HTTP/1.1 method begins like it.
const http2Preface = "PRI"

// How long a new connection may stay silent before its protocol is known.
const prefaceTimeout = 10 * time.Second

// split hands every connection of the listener to gRPC or REST, by its first bytes.
func split(listener net.Listener, grpcConns, restConns *connQueue) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			conn, isHTTP2, err := sniff(conn)
			switch {
			case err != nil:
				conn.Close()
			case isHTTP2:
				grpcConns.push(conn)
			default:
				restConns.push(conn)
			}
		}()
	}
}

// sniff tells which protocol the client speaks, from bytes that stay readable on the returned connection.
func sniff(conn net.Conn) (net.Conn, bool, error) {
	reader := bufio.NewReader(conn)
	if err := conn.SetReadDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		return conn, false, err
	}
	start, err := reader.Peek(len(http2Preface))
	if err != nil {
		return conn, false, err
	}
	isHTTP2 := string(start) == http2Preface
	return sniffedConn{conn, reader}, isHTTP2, conn.SetReadDeadline(time.Time{})
}

type sniffedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c sniffedConn) Read(buffer []byte) (int, error) { return c.reader.Read(buffer) }

// connQueue is a listener whose connections are pushed by split.
type connQueue struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
	addr   net.Addr
}

func newConnQueue(addr net.Addr) *connQueue {
	return &connQueue{conns: make(chan net.Conn), closed: make(chan struct{}), addr: addr}
}

func (q *connQueue) push(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		if err := conn.Close(); err != nil {
			log.Printf("close a late connection: %v", err)
		}
	}
}

func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *connQueue) Close() error {
	q.close.Do(func() { close(q.closed) })
	return nil
}

func (q *connQueue) Addr() net.Addr { return q.addr }
