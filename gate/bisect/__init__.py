"""Finding the commit or version that made a kernel slower, at a stated error rate; pure, it asks and is answered."""
