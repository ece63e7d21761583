"""What the server's tests share."""
import subprocess


def serve(exe, model, *options):
    """A server on a free port, once it is ready: (process, "http://127.0.0.1:PORT"). Its messages come by process.stderr."""
    server = subprocess.Popen([exe, "serve", model, "--port", "0", *options], stderr=subprocess.PIPE, text=True)
    return server, server.stderr.readline().split(" on ")[1].split(" ")[0].rstrip()
